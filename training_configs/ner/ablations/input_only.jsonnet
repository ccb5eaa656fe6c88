// NER on CoNLL-2003 with ELMo at the input of the lowest biLSTM only, which is what ../elmo.jsonnet has: Table 3's
// "Input Only", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/ner/ablations/input_only.jsonnet -s runs/ner_input_only
//
// The paper: test F1 92.22 (Table 1).
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input'])
