from model_fixtures import *  # noqa
