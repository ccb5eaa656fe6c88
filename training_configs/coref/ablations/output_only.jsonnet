// Coreference on CoNLL-2012 with ELMo at the output of the biLSTM only: Table 3's "Output Only", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/output_only.jsonnet -s runs/coref_output_only
//
// The paper: no figure for this task; Table 3 is on SQuAD, SNLI and SRL.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['output'])
