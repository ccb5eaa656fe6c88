// The biLM's last layer only: column "last only" of Table 2. The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/top_layer_only.jsonnet -s runs/sst_top_layer_only
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only
