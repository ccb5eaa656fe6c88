// NER on CoNLL-2003 with layer weights free to vary: Table 2's "lambda=0.001", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/ner/ablations/lambda_0001.jsonnet -s runs/ner_lambda_0001
//
// The paper: "for NER [...] the results are insensitive to lambda (not shown)" (section 5.1).
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(0.001)
