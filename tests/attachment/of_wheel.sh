# Tests the extension that a wheel has installed, without torch. Argument: the root of this tree.
found=$(python -c "import importlib.util as u; print(*u.find_spec('graphmend_bc').submodule_search_locations)")
export GRAPHMEND_BC_TEST_EXTENSION="$found"
cd "$1/tests/attachment" || exit
exec python -m pytest -q -c ../../pyproject.toml -p no:cacheprovider \
    test_evaluator.py test_choosing.py test_measuring.py test_hygiene.py
