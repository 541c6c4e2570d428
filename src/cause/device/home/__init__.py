"""An open home: opening, requests that wait, forgetting, and the checks at an opening."""
