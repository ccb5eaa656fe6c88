// The biLM's last layer only and no gamma: the case of A.2 in which gamma matters most. The paper has no figure for
// SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/top_layer_only_gamma_off.jsonnet -s runs/sst_top_layer_only_gamma_off
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only + elmo.gamma_off
