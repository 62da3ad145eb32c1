"""The two tables: all methods with the decoder, all without."""

from __future__ import annotations

from dataclasses import replace

from multipool.bench.compare.judge import judge, speeds


def test_with_the_decoder_lame_is_a_method_like_others(rows):
    table = judge(rows, decoded=True)
    assert table.apart == frozenset()
    assert table.regrets["shapes-c/wrn10-1/ptta"]["rotta"] == 1.0  # lame has 30
    assert table.conclusion.startswith("Use bn: over 3 kinds of stream")  # rotta has but two


def test_columns_go_by_their_kind_alone_where_there_is_one_model(rows, row):
    alone = judge(rows, decoded=True)
    assert alone.names["shapes-c/wrn10-1/ctta"] == "ctta"
    assert "at worst (ptta)" in alone.conclusion
    other = replace(row("bn", "ptta", 3.0), model="wrn16-2")
    several = judge([*rows, other], decoded=True)
    assert several.names["shapes-c/wrn10-1/ctta"] == "shapes-c/wrn10-1/ctta"


def test_without_it_lame_is_listed_and_sets_no_best(rows):
    table = judge(rows, decoded=False)
    assert table.apart == {"lame"}
    assert table.regrets["shapes-c/wrn10-1/ptta"] == {
        "source": 9.0,
        "bn": 19.0,
        "lame": -16.0,
        "rotta": 0.0,
    }
    assert table.standings[-1].row == "lame"
    assert "lame" not in table.conclusion


def test_runs_without_a_decoder_make_no_decoded_table(row):
    rows = [row("bn", "ptta", None, 30.0)]
    assert judge(rows, decoded=True) is None
    assert judge(rows, decoded=False).errors == {"shapes-c/wrn10-1/ptta": {"bn": 30.0}}


def test_speed_is_beside_source_on_the_same_stream(rows):
    assert speeds(rows) == {"source": 1.0, "bn": 0.5, "lame": 0.5, "rotta": 0.5}
    assert speeds([row for row in rows if row.method != "source"]) == {}
