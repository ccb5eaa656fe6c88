// Semantic role labeling on OntoNotes with ELMo and no word vectors: Table 7 of the camera-ready paper.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/without_word_vectors.jsonnet -s runs/srl_without_word_vectors
//
// The paper: dev F1 84.5, against 84.7 with both.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.without_word_vectors
