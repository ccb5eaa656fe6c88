// BiDAF with self-attention on SQuAD without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/gamma_off.jsonnet -s runs/squad_gamma_off
//
// The paper has no result for SQuAD; on other tasks, it matters most with the top layer only: see
// top_layer_only_gamma_off.jsonnet.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.gamma_off
