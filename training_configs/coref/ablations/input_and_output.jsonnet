// Coreference on CoNLL-2012 with ELMo at both placements: Table 3's "Input & Output", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/input_and_output.jsonnet -s runs/coref_input_and_output
//
// The paper: average F1 0.7 below the input alone (A.6).
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input', 'output'])
