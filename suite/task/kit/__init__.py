"""What tasks share: training preparation, pipelines, commands, bulk files, evaluation. `Task` uses it by default."""
