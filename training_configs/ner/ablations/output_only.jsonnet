// NER on CoNLL-2003 with ELMo at the output of the lowest biLSTM only: Table 3's "Output Only", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/ner/ablations/output_only.jsonnet -s runs/ner_output_only
//
// The paper: no figure for this task; Table 3 is on SQuAD, SNLI and SRL.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['output'])
