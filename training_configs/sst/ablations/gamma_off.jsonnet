// No gamma (A.2, where it matters most for the last layer alone). The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/gamma_off.jsonnet -s runs/sst_gamma_off
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.gamma_off
