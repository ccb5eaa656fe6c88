// ELMo at every placement that the network has. The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/all_placements.jsonnet -s runs/sst_all_placements
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output', 'integrated'])
