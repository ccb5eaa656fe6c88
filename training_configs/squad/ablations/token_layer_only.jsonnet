// BiDAF with self-attention on SQuAD with the biLM's context-independent layer in place of word vectors: Table 7 of the
// camera-ready paper.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/token_layer_only.jsonnet -s runs/squad_token_layer_only
//
// The paper: dev F1 81.4, against 80.8 with word vectors.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.token_layer_only + elmo.placements(['input']) + elmo.without_word_vectors
