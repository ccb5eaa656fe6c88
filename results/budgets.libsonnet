// How much of each task the two settings train: `quick`, an hour or two on one core for a first look, and `full`, which
// trains until validation has stopped improving. A baseline and its +ELMo share all of it.
//
// `changes` is what a budget changes in the task's experiment, `note` says it in words, `seeds` are the trainings, and
// the fractions are the parts of the training and validation sets that are used. `tried` are other choices, by name;
// `sides` and `seeds` are what was trained with them as well, and `beside` is the one of them that they are held against
// rather than what was taken.

// Epochs of this many updates, whatever the data's length: an epoch continues where the previous one stopped.
local epochs(updates, trainer) = {
  local loader = super.data_loader,
  data_loader+: { batches_per_epoch: updates },
  // Without a separate config for validation, its loader would be cut short as well.
  validation_data_loader: if 'validation_data_loader' in super then super.validation_data_loader else loader,
  trainer+: trainer,
};
// Exactly this many updates.
local exactly(num_epochs, updates) = epochs(updates, { num_epochs: num_epochs, patience: null });
// Until the best of the validations, one every `updates`, is `patience` validations old.
local until_stable(updates, patience, at_most) = epochs(updates, { num_epochs: at_most, patience: patience });

local budget = {
  seeds: [1],
  train_fraction: 1.0,
  validation_fraction: 1.0,
  note: "the paper's sizes",
  tried: {},
};
local tried(sides) = { sides: sides, seeds: [1], beside: null };

{
  // Narrower networks than the paper's, optimizers that get going at once, and less dropout where a training set is
  // read about once.
  quick: {
    squad: budget {
      note: 'batches of 16, passages cut to 200 tokens, Adam at 0.002',
      validation_fraction: 0.03,
      changes:: exactly(6, 50) {
        batch_size:: 16,
        max_passage_tokens:: 200,
        trainer+: { optimizer: { type: 'adam', lr: 0.002 } },
      },
    },
    snli: budget {
      note: 'half the widths, learning rate 0.001, dropout 0.2',
      validation_fraction: 0.1,
      changes:: exactly(6, 100) {
        dim:: 150,
        dropout:: 0.2,
        learning_rate:: 0.001,
      },
    },
    srl: budget {
      note: '4 layers of 200, batches of 40, Adam at 0.001',
      validation_fraction: 0.2,
      changes:: exactly(8, 100) {
        num_layers:: 4,
        hidden_dim:: 200,
        batch_size:: 40,
        trainer+: { optimizer: { type: 'adam', lr: 0.001 } },
      },
    },
    coref: budget {
      note: 'half the widths, 100 antecedents, documents cut to 25 sentences',
      changes:: exactly(4, 84) {
        encoder_dim:: 100,
        hidden_dim:: 75,
        model+: { max_antecedents: 100, max_training_sentences: 25 },
      },
    },
    ner: budget {
      note: 'batches of 16',
      seeds: [1, 2, 3],
      changes:: exactly(10, 87) { batch_size:: 16 },
    },
    sst: budget {
      note: 'half the widths, learning rate 0.001, dropout 0.2 and 0.1',
      seeds: [1, 2, 3],
      train_fraction: 0.4,
      changes:: exactly(6, 60) {
        hidden_dim:: 150,
        learning_rate:: 0.001,
        model+: { embedding_dropout: 0.2, encoded_dropout: 0.1 },
      },
    },
  },

  // The paper's networks for SQuAD, SNLI, coreference and NER; the others are narrower, as the notes say, so that a run
  // takes minutes to an hour and a half of one core. The paper's dropouts except for SNLI's.
  full: {
    squad: budget {
      note: 'batches of 16, passages cut to 200 tokens',
      validation_fraction: 0.1,
      // With a patience of 4 the baseline had stopped at 52.3, where it gets to 58.5.
      changes:: until_stable(200, 8, 60) {
        batch_size:: 16,
        max_passage_tokens:: 200,
      },
      tried: {
        adam: tried(['baseline', 'elmo']) {
          note: 'Adam at 0.002, patience of 4, 40 validations at most',
          changes:: { trainer+: { num_epochs: 40, patience: 4, optimizer: { type: 'adam', lr: 0.002 } } },
        },
      },
    },
    snli: budget {
      note: "learning rate 0.001, dropout 0.2 and 0.5 on ELMo's vectors",
      seeds: [1, 2, 3],
      validation_fraction: 0.5,
      // An epoch is a pass over the pairs: the rate is halved at every validation without a new best.
      changes:: until_stable(625, 4, 16) {
        dropout:: 0.2,
        elmo_dropout:: 0.5,
        learning_rate:: 0.001,
      },
      tried: {
        half_widths: tried(['baseline', 'elmo']) {
          note: 'half the widths',
          seeds: [1, 2, 3],
          changes:: { dim:: 150 },
        },
        paper_dropout: tried(['baseline']) {
          note: "half the widths and the paper's dropout of 0.5, 30 validations at most",
          beside: 'half_widths',
          changes:: { dim:: 150, dropout:: 0.5, trainer+: { num_epochs: 30 } },
        },
        paper_rate: tried(['baseline']) {
          note: "half the widths and the paper's learning rate of 0.0004, 30 validations at most",
          beside: 'half_widths',
          changes:: { dim:: 150, learning_rate:: 0.0004, trainer+: { num_epochs: 30 } },
        },
        no_elmo_dropout: tried(['elmo']) {
          note: "half the widths and 0.2 on ELMo's vectors too, at the input of each LSTM, and no more",
          beside: 'half_widths',
          seeds: [1, 2, 3],
          changes:: { dim:: 150, elmo_dropout:: 0.0 },
        },
      },
    },
    srl: budget {
      note: '4 layers of 200, batches of 40, Adam at 0.001',
      seeds: [1, 2],
      validation_fraction: 0.5,
      changes:: until_stable(250, 4, 40) {
        num_layers:: 4,
        hidden_dim:: 200,
        batch_size:: 40,
        trainer+: { optimizer: { type: 'adam', lr: 0.001 } },
      },
      tried: {
        paper_optimizer: tried(['baseline']) {
          note: "the paper's Adadelta at 1.0",
          changes:: { trainer+: { optimizer: { type: 'adadelta', lr: 1.0, rho: 0.95 } } },
        },
        paper_sizes: tried(['baseline']) {
          note: "the paper's 8 layers of 300",
          changes:: { num_layers:: 8, hidden_dim:: 300 },
        },
      },
    },
    coref: budget {
      changes:: until_stable(84, 5, 50) {},
      tried: {
        half_sizes: tried(['baseline']) {
          note: 'half the widths, 100 antecedents, documents cut to 25 sentences',
          changes:: {
            encoder_dim:: 100,
            hidden_dim:: 75,
            model+: { max_antecedents: 100, max_training_sentences: 25 },
          },
        },
      },
    },
    ner: budget {
      note: 'batches of 16',
      seeds: [1, 2, 3],
      changes:: until_stable(87, 15, 75) { batch_size:: 16 },
    },
    sst: budget {
      note: 'half the widths, learning rate 0.001',
      seeds: [1, 2, 3],
      changes:: until_stable(150, 5, 24) {
        hidden_dim:: 150,
        learning_rate:: 0.001,
      },
      tried: {
        paper_widths: tried(['baseline']) {
          note: "the paper's widths",
          changes:: { hidden_dim:: 300 },
        },
        paper_rate: tried(['baseline']) {
          note: "the paper's learning rate of 0.0001, 60 validations at most",
          changes:: { learning_rate:: 0.0001, trainer+: { num_epochs: 60 } },
        },
      },
    },
  },
}
