// ESIM on SNLI with the top layer of the biLM only: column "Last Only" of Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/top_layer_only.jsonnet -s runs/snli_top_layer_only
//
// The paper: dev accuracy 89.1, against 89.5 with all layers.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only
