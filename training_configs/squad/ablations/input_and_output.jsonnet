// BiDAF with self-attention on SQuAD with ELMo at both placements: column "Input & Output" of Table 3, which is what
// ../elmo.jsonnet has.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/input_and_output.jsonnet -s runs/squad_input_and_output
//
// The paper: dev F1 85.6.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output'])
