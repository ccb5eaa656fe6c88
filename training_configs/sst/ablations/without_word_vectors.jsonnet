// ELMo without word vectors: Table 7 of the camera-ready paper. The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/without_word_vectors.jsonnet -s runs/sst_without_word_vectors
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.without_word_vectors
