// ESIM on SNLI with ELMo and no word vectors: Table 7 of the camera-ready paper.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/without_word_vectors.jsonnet -s runs/snli_without_word_vectors
//
// The paper: marginally worse than with both.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.without_word_vectors
