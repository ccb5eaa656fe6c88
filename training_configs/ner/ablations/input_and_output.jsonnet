// NER on CoNLL-2003 with ELMo at both placements: Table 3's "Input & Output", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/ner/ablations/input_and_output.jsonnet -s runs/ner_input_and_output
//
// The paper: no figure for this task; Table 3 is on SQuAD, SNLI and SRL.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output'])
