// Semantic role labeling on OntoNotes with ELMo at the output of the topmost LSTM only: column "Output Only" of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/output_only.jsonnet -s runs/srl_output_only
//
// The paper: dev F1 80.9, below the baseline.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['output'])
