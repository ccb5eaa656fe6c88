// BiDAF with self-attention on SQuAD with ELMo at the input of the contextual GRU only: column "Input Only" of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/input_only.jsonnet -s runs/squad_input_only
//
// The paper: dev F1 85.1, against 85.6 with both placements.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input'])
