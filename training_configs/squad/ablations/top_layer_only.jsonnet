// BiDAF with self-attention on SQuAD with the top layer of the biLM only: column "Last Only" of Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/top_layer_only.jsonnet -s runs/squad_top_layer_only
//
// The paper: dev F1 84.7, against 85.2 with all layers.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only
