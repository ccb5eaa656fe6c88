// Semantic role labeling on OntoNotes with the top layer of the biLM only, and without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/top_layer_only_gamma_off.jsonnet -s runs/srl_top_layer_only_gamma_off
//
// The paper: training fails, in words only.
local elmo = import '../../lib/elmo.libsonnet';

(import 'top_layer_only.jsonnet') + elmo.gamma_off
