// ELMo at the input and the output: column "Input & output" of Table 3, and elmo.jsonnet's own placements. The paper
// has no figure for SST-5 here.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/input_and_output.jsonnet -s runs/sst_input_and_output
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output'])
