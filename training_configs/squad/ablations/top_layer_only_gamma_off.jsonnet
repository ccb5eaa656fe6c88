// BiDAF with self-attention on SQuAD with the top layer of the biLM only, and without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/top_layer_only_gamma_off.jsonnet -s runs/squad_gamma_off_top
//
// The paper has no result for SQuAD; on SNLI it is well below the baseline.
local elmo = import '../../lib/elmo.libsonnet';

(import 'top_layer_only.jsonnet') + elmo.gamma_off
