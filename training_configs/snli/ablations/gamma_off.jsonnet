// ESIM on SNLI without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/gamma_off.jsonnet -s runs/snli_gamma_off
//
// The paper has a result for the top layer only: see top_layer_only_gamma_off.jsonnet.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.gamma_off
