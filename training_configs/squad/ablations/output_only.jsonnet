// BiDAF with self-attention on SQuAD with ELMo at the output of the contextual GRU only: column "Output Only"
// of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/output_only.jsonnet -s runs/squad_output_only
//
// The paper: dev F1 84.8, against 85.6 with both placements.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['output'])
