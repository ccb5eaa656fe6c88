// Coreference on CoNLL-2012 with the top layer of the biLM only: Table 2's "Last Only", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/top_layer_only.jsonnet -s runs/coref_top_layer_only
//
// The paper: no figure for this task; Table 2 is on SQuAD, SNLI and SRL.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only
