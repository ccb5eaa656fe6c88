// NER on CoNLL-2003 with the top layer of the biLM only: Table 2's "Last Only", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/ner/ablations/top_layer_only.jsonnet -s runs/ner_top_layer_only
//
// The paper: test F1 91.93 +- 0.19 for the top layer in an earlier system of the authors, against 92.22 with all layers
// (Table 12).
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.top_layer_only
