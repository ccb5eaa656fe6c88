// The biLM's context-independent layer in place of word vectors: Table 7 of the camera-ready paper. The paper has no
// figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/token_layer_only.jsonnet -s runs/sst_token_layer_only
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input']) + elmo.token_layer_only + elmo.without_word_vectors
