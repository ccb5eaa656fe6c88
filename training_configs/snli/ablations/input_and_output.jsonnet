// ESIM on SNLI with ELMo at both placements: column "Input & Output" of Table 3, which is what ../elmo.jsonnet has.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/input_and_output.jsonnet -s runs/snli_input_and_output
//
// The paper: dev accuracy 89.5.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output'])
