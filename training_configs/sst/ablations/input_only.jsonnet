// ELMo at the input only: column "Input only" of Table 3. The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/input_only.jsonnet -s runs/sst_input_only
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input'])
