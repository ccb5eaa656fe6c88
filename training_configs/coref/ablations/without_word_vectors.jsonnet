// Coreference on CoNLL-2012 with ELMo and neither word vectors nor the character CNN: Table 7 of the camera-ready
// paper, for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/without_word_vectors.jsonnet -s runs/coref_without_word_vectors
//
// The paper: no figure for this task; the table is on SQuAD, SNLI and SRL.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.without_word_vectors
