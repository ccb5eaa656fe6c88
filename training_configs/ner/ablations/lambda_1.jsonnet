// NER on CoNLL-2003 with layer weights held close to their plain average: Table 2's "lambda=1", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/ner/ablations/lambda_1.jsonnet -s runs/ner_lambda_1
//
// The paper: "for NER [...] the results are insensitive to lambda (not shown)" (section 5.1).
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(1.0)
