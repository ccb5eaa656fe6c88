// Semantic role labeling on OntoNotes with the biLM's context-independent layer in place of word vectors: Table 7 of the
// camera-ready paper.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/token_layer_only.jsonnet -s runs/srl_token_layer_only
//
// The paper: slightly better than word vectors.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.token_layer_only + elmo.without_word_vectors
