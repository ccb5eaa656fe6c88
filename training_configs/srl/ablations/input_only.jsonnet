// Semantic role labeling on OntoNotes with ELMo at the input only, which is what ../elmo.jsonnet has: column "Input Only"
// of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/input_only.jsonnet -s runs/srl_input_only
//
// The paper: dev F1 84.7.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input'])
