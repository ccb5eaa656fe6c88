// BiDAF with self-attention on SQuAD with ELMo and no word vectors: Table 7 of the camera-ready paper.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/without_word_vectors.jsonnet -s runs/squad_without_word_vectors
//
// The paper: marginally worse than with both.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.without_word_vectors
