"""Problems as verl's data sets, and back."""
