// Semantic role labeling on OntoNotes with ELMo at both placements: column "Input & Output" of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/input_and_output.jsonnet -s runs/srl_input_and_output
//
// The paper: dev F1 84.3, against 84.7 at the input only.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output'])
