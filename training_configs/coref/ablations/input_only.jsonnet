// Coreference on CoNLL-2012 with ELMo at the input of the biLSTM only, which is what ../elmo.jsonnet has: Table 3's
// "Input Only", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/input_only.jsonnet -s runs/coref_input_only
//
// The paper: average F1 70.4 on the test set (Table 1).
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input'])
