#!/bin/sh
# One issue for each stack, opened at the first change and commented at each that follows; needs gh and jq.
# stackproof night --stack cuda --notify ./issue.sh
set -eu
changed=$(cat)
title="night: $(printf '%s' "$changed" | jq -r .stack)"
body=$(printf '%s' "$changed" | jq -r '"**\(.verdict)** on \(.host), \(.record)",
  (.changes[] | "- `\(.check)`: \(.was) -> \(.is): \(.reason)")')
number=$(gh issue list --state open --search "\"$title\" in:title" --json number --jq '.[0].number // empty')
if [ -n "$number" ]; then
  gh issue comment "$number" --body "$body"
else
  gh issue create --title "$title" --body "$body"
fi
