// ESIM on SNLI with the biLM's context-independent layer in place of word vectors: Table 7 of the camera-ready paper.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/token_layer_only.jsonnet -s runs/snli_token_layer_only
//
// The paper: slightly better than word vectors.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.token_layer_only + elmo.placements(['input']) + elmo.without_word_vectors
