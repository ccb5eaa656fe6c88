// Semantic role labeling on OntoNotes without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/gamma_off.jsonnet -s runs/srl_gamma_off
//
// The paper: no figure for this task.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.gamma_off
