// ESIM on SNLI with the top layer of the biLM only, and without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/top_layer_only_gamma_off.jsonnet -s runs/snli_gamma_off_top
//
// The paper: well below the baseline, in words only.
local elmo = import '../../lib/elmo.libsonnet';

(import 'top_layer_only.jsonnet') + elmo.gamma_off
