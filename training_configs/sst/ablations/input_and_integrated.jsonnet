// ELMo at the input and after the integrator, where AllenNLP's BCN could put it: another reading of A.8's sentence. The
// paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/input_and_integrated.jsonnet -s runs/sst_input_and_integrated
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'integrated'])
