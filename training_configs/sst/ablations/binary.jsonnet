// Positive or negative, neutral sentences left out: the treebank's other task, SST-2, which the paper doesn't report.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/binary.jsonnet -s runs/sst_binary
(import '../elmo.jsonnet') + { granularity:: '2-class' }
