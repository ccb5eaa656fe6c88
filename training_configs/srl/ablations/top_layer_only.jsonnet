// Semantic role labeling on OntoNotes with the top layer of the biLM only: column "Last Only" of Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/top_layer_only.jsonnet -s runs/srl_top_layer_only
//
// The paper: dev F1 84.1, against 84.8 with all layers.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only
