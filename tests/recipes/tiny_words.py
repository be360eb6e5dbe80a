"""The command line of the prepared set and the base model that the tests of the training stages share."""

TINY = (
    "recipe=imagination_cot", "scale=tiny", "data.synthetic.train_groups=60", "data.synthetic.test_groups=8",
    "model.build.pretraining.steps=0", "model.build.pretraining.pictures=8", "model.build.vocabulary=400",
)  # fmt: skip
