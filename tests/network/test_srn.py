from __future__ import annotations

import pytest
import torch
from tests.network import invariances
from tests.network.invariances import INPUT_WIDTH, LENGTHS, example, randomise
from torch import Tensor
from torch.func import functional_call

from cascade_srn.network.kernels.reference import srn_scan
from cascade_srn.network.sequence import padding_mask, reverse_sequences
from cascade_srn.network.srn import SelectionRecurrentCell, SelectionRecurrentNetwork

HIDDEN = 3


def cell_of(n_tasks: int) -> SelectionRecurrentCell:
    cell = SelectionRecurrentCell(INPUT_WIDTH, HIDDEN, n_tasks=n_tasks).double()
    randomise(cell)
    return cell


def network_of(n_tasks: int, *, bidirectional: bool = False) -> SelectionRecurrentNetwork:
    network = SelectionRecurrentNetwork(INPUT_WIDTH, HIDDEN, n_tasks=n_tasks, bidirectional=bidirectional).double()
    randomise(network)
    return network


# The paper, written out --------------------------------------------------------------------------------------


class PaperWeights:
    """The matrices W1 and W2 of the paper, which multiply [h_{t−1}, x_t], from the parameters of a cell.

    The paper writes no biases. A cell has one for each gate.
    """

    def __init__(self, cell: SelectionRecurrentCell) -> None:
        n = cell.hidden_width
        both = torch.cat((cell.recurrent_weight.T, cell.input_projection.weight), dim=1).detach()
        bias = cell.input_projection.bias.detach()
        blocks = [(both[k * n : (k + 1) * n], bias[k * n : (k + 1) * n]) for k in range(3 + 2 * cell.n_tasks)]
        self.W1_f, self.W1_o, self.W1_c = blocks[:3]
        self.W2_history = blocks[3 : 3 + cell.n_tasks]
        self.W2_candidate = blocks[3 + cell.n_tasks :]
        self.linear = cell.cell_weight.detach().T
        self.linear_bias = cell.cell_bias.detach()


def sigma(gate: tuple[Tensor, Tensor], h: Tensor, x: Tensor) -> Tensor:
    return torch.sigmoid(gate[0] @ torch.cat((h, x)) + gate[1])


def paper_three_tasks(cell: SelectionRecurrentCell, sentence: Tensor) -> list[dict[str, Tensor]]:
    """Compute the section "Selection Recurrent Network" literally, for one sentence, step by step."""
    w = PaperWeights(cell)
    h = torch.zeros(cell.hidden_width, dtype=torch.float64)
    c = torch.zeros(cell.hidden_width, dtype=torch.float64)
    outputs = []
    for x in sentence:
        f_t = sigma(w.W1_f, h, x)
        o_t = sigma(w.W1_o, h, x)
        c_hat = torch.tanh(w.W1_c[0] @ torch.cat((h, x)) + w.W1_c[1])
        c_tilde = f_t * c

        rho_e_hat = sigma(w.W2_candidate[0], h, x)
        rho_s_hat = sigma(w.W2_candidate[1], h, x)
        rho_o_hat = sigma(w.W2_candidate[2], h, x)
        g_es_hat = rho_e_hat * rho_s_hat
        g_eo_hat = rho_e_hat * rho_o_hat
        g_so_hat = rho_s_hat * rho_o_hat
        g_eso_hat = rho_e_hat * rho_s_hat * rho_o_hat
        g_e_hat = rho_e_hat - g_es_hat - g_eo_hat + g_eso_hat
        g_s_hat = rho_s_hat - g_es_hat - g_so_hat + g_eso_hat
        g_o_hat = rho_o_hat - g_eo_hat - g_so_hat + g_eso_hat

        rho_e_tilde = sigma(w.W2_history[0], h, x)
        rho_s_tilde = sigma(w.W2_history[1], h, x)
        rho_o_tilde = sigma(w.W2_history[2], h, x)
        g_es_tilde = rho_e_tilde * rho_s_tilde
        g_eo_tilde = rho_e_tilde * rho_o_tilde
        g_so_tilde = rho_s_tilde * rho_o_tilde
        g_eso_tilde = rho_e_tilde * rho_s_tilde * rho_o_tilde
        g_e_tilde = rho_e_tilde - g_es_tilde - g_eo_tilde + g_eso_tilde
        g_s_tilde = rho_s_tilde - g_es_tilde - g_so_tilde + g_eso_tilde
        g_o_tilde = rho_o_tilde - g_eo_tilde - g_so_tilde + g_eso_tilde

        s_e = g_e_tilde * c_tilde + g_e_hat * c_hat
        s_s = g_s_tilde * c_tilde + g_s_hat * c_hat
        s_o = g_o_tilde * c_tilde + g_o_hat * c_hat
        s_es = g_es_tilde * c_tilde + g_es_hat * c_hat
        s_eo = g_eo_tilde * c_tilde + g_eo_hat * c_hat
        s_so = g_so_tilde * c_tilde + g_so_hat * c_hat
        s_eso = g_eso_tilde * c_tilde + g_eso_hat * c_hat

        c = w.linear @ torch.cat((s_e, s_s, s_o, s_es, s_eo, s_so, s_eso)) + w.linear_bias
        h = o_t * torch.tanh(c)
        outputs.append(
            {
                "e": torch.tanh(s_e),
                "s": torch.tanh(s_s),
                "o": torch.tanh(s_o),
                "es": torch.tanh(s_es),
                "eo": torch.tanh(s_eo),
                "so": torch.tanh(s_so),
                "eso": torch.tanh(s_eso),
            }
        )
    return outputs


def paper_two_tasks(cell: SelectionRecurrentCell, sentence: Tensor) -> list[dict[str, Tensor]]:
    """Compute the appendix for entities and relations. As with three tasks, the history has its own gates."""
    w = PaperWeights(cell)
    h = torch.zeros(cell.hidden_width, dtype=torch.float64)
    c = torch.zeros(cell.hidden_width, dtype=torch.float64)
    outputs = []
    for x in sentence:
        f_t = sigma(w.W1_f, h, x)
        o_t = sigma(w.W1_o, h, x)
        c_hat = torch.tanh(w.W1_c[0] @ torch.cat((h, x)) + w.W1_c[1])
        c_tilde = f_t * c

        rho_e_hat = sigma(w.W2_candidate[0], h, x)
        rho_r_hat = sigma(w.W2_candidate[1], h, x)
        g_er_hat = rho_e_hat * rho_r_hat
        g_e_hat = rho_e_hat - g_er_hat
        g_r_hat = rho_r_hat - g_er_hat

        rho_e_tilde = sigma(w.W2_history[0], h, x)
        rho_r_tilde = sigma(w.W2_history[1], h, x)
        g_er_tilde = rho_e_tilde * rho_r_tilde
        g_e_tilde = rho_e_tilde - g_er_tilde
        g_r_tilde = rho_r_tilde - g_er_tilde

        s_e = g_e_tilde * c_tilde + g_e_hat * c_hat
        s_r = g_r_tilde * c_tilde + g_r_hat * c_hat
        s_er = g_er_tilde * c_tilde + g_er_hat * c_hat

        c = w.linear @ torch.cat((s_e, s_r, s_er)) + w.linear_bias
        h = o_t * torch.tanh(c)
        outputs.append({"e": torch.tanh(s_e), "r": torch.tanh(s_r), "er": torch.tanh(s_er)})
    return outputs


PAPER = {2: paper_two_tasks, 3: paper_three_tasks}
SETS = {2: ("e", "r", "er"), 3: ("e", "s", "o", "es", "eo", "so", "eso")}
TASKS = {
    2: (("e", "er"), ("r", "er")),
    3: (("e", "es", "eo", "eso"), ("s", "es", "so", "eso"), ("o", "eo", "so", "eso")),
}


@pytest.mark.parametrize("n_tasks", [2, 3])
def test_cell_equals_the_papers_equations(n_tasks: int) -> None:
    cell = cell_of(n_tasks)
    inputs, lengths = example()
    features = cell(inputs, lengths)
    assert features.shape == (*inputs.shape[:2], len(SETS[n_tasks]), HIDDEN)
    for i, n in enumerate(LENGTHS):
        for t, expected in enumerate(PAPER[n_tasks](cell, inputs[i, :n])):
            for k, name in enumerate(SETS[n_tasks]):
                torch.testing.assert_close(features[i, t, k], expected[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_tasks", [2, 3])
def test_the_plain_scan_equals_the_papers_equations(n_tasks: int) -> None:
    cell = cell_of(n_tasks)
    inputs, _ = example()
    projected = cell.input_projection(inputs)
    memories = srn_scan(projected, cell.recurrent_weight, cell.cell_weight, cell.cell_bias, n_tasks)
    for i, sentence in enumerate(inputs):
        for t, expected in enumerate(PAPER[n_tasks](cell, sentence)):
            for k, name in enumerate(SETS[n_tasks]):
                torch.testing.assert_close(memories[i, t, k].tanh(), expected[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_tasks", [2, 3])
def test_a_task_has_its_own_memory_and_all_shared_ones(n_tasks: int) -> None:
    network = network_of(n_tasks)
    inputs, lengths = example()
    features = network(inputs, lengths)
    assert network.task_width == len(TASKS[n_tasks][0]) * HIDDEN
    for task, names in enumerate(TASKS[n_tasks]):
        seen = network.task(features, task)
        for i, n in enumerate(LENGTHS):
            for t, memories in enumerate(PAPER[n_tasks](network.forward_cell, inputs[i, :n])):
                expected = torch.cat([memories[name] for name in names])
                torch.testing.assert_close(seen[i, t], expected, rtol=0, atol=1e-12)


def test_bidirectional_reads_each_sentence_from_its_own_end_too() -> None:
    n_tasks = 3
    network = network_of(n_tasks, bidirectional=True)
    inputs, lengths = example()
    features = network(inputs, lengths)
    assert network.task_width == 2 * len(TASKS[n_tasks][0]) * HIDDEN
    for task, names in enumerate(TASKS[n_tasks]):
        seen = network.task(features, task)
        for i, n in enumerate(LENGTHS):
            forward = PAPER[n_tasks](network.forward_cell, inputs[i, :n])
            back = PAPER[n_tasks](network.backward_cell, inputs[i, :n].flip(0))[::-1]
            for t in range(n):
                expected = torch.cat([torch.cat((forward[t][name], back[t][name])) for name in names])
                torch.testing.assert_close(seen[i, t], expected, rtol=0, atol=1e-12)


def test_more_tasks_have_more_memories() -> None:
    n_tasks = 5
    network = network_of(n_tasks)
    inputs, lengths = example()
    features = network(inputs, lengths)
    assert features.shape == (*inputs.shape[:2], 2**n_tasks - 1, HIDDEN)
    assert network.task(features, n_tasks - 1).shape == (*inputs.shape[:2], 2 ** (n_tasks - 1) * HIDDEN)


# Gradients ---------------------------------------------------------------------------------------------------


def test_gradients_of_inputs_and_parameters() -> None:
    network = SelectionRecurrentNetwork(2, 1, n_tasks=3).double()
    randomise(network)
    names = [name for name, _ in network.named_parameters()]
    lengths = torch.tensor([2, 1])

    def run(inputs: Tensor, *parameters: Tensor) -> Tensor:
        output: Tensor = functional_call(network, dict(zip(names, parameters, strict=True)), (inputs, lengths))
        return output

    inputs = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (inputs, *network.parameters()))


# Direction ---------------------------------------------------------------------------------------------------


def changed_from(step: int) -> tuple[Tensor, Tensor, Tensor]:
    inputs = torch.randn(2, 6, INPUT_WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    other = inputs.clone()
    other[:, step:] += 1.0
    return inputs, other, torch.tensor([6, 6])


def test_forward_only_does_not_depend_on_later_words() -> None:
    network = network_of(3)
    inputs, other, lengths = changed_from(3)
    before, after = network(inputs, lengths), network(other, lengths)
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-14)
    assert (before[:, 3:] - after[:, 3:]).abs().amax(dim=(2, 3)).gt(1e-6).all()


def test_forward_only_remembers_the_first_word_to_the_end() -> None:
    network = network_of(3)
    inputs, _, lengths = changed_from(3)
    other = inputs.clone()
    other[:, 0] += 1.0
    difference = (network(inputs, lengths) - network(other, lengths)).abs().amax(dim=(2, 3))
    assert difference.gt(1e-8).all()


def test_bidirectional_depends_on_earlier_and_later_words() -> None:
    network = network_of(3, bidirectional=True)
    inputs, other, lengths = changed_from(3)
    before, after = network(inputs, lengths), network(other, lengths)
    forward, back = (before - after)[..., :HIDDEN], (before - after)[..., HIDDEN:]
    torch.testing.assert_close(forward[:, :3], torch.zeros_like(forward[:, :3]), rtol=0, atol=1e-14)
    assert back[:, :3].abs().amax(dim=(2, 3)).gt(1e-8).all()


# Batches and padding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_tasks", "bidirectional"), [(3, False), (2, True)])
def test_invariances(n_tasks: int, bidirectional: bool) -> None:
    invariances.check_all(network_of(n_tasks, bidirectional=bidirectional))


# Construction ------------------------------------------------------------------------------------------------


def test_fewer_than_two_tasks_are_refused() -> None:
    for n_tasks in (-1, 0, 1):
        with pytest.raises(ValueError, match=f"n_tasks is {n_tasks}"):
            SelectionRecurrentNetwork(INPUT_WIDTH, HIDDEN, n_tasks=n_tasks)


def test_forget_gates_start_open_and_other_biases_at_zero() -> None:
    cell = SelectionRecurrentCell(INPUT_WIDTH, HIDDEN, n_tasks=3)
    assert cell.input_projection.bias[:HIDDEN].tolist() == [1.0] * HIDDEN
    assert torch.count_nonzero(cell.input_projection.bias[HIDDEN:]) == 0
    assert torch.count_nonzero(cell.cell_bias) == 0
    for weight in (cell.input_projection.weight, cell.recurrent_weight, cell.cell_weight):
        assert weight.abs().max() <= HIDDEN**-0.5
        assert weight.std() > 0.4 * HIDDEN**-0.5


# Helpers -----------------------------------------------------------------------------------------------------


def test_padding_mask_is_true_at_items() -> None:
    mask = padding_mask(torch.tensor([2, 0, 3]), 3)
    assert mask.int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]


def test_reverse_sequences_reverses_each_sequence_and_leaves_its_padding() -> None:
    values, lengths = torch.tensor([[1, 2, 3, 4], [1, 2, 8, 9], [6, 7, 8, 9], [5, 7, 8, 9]]), torch.tensor([4, 2, 0, 1])
    reversed_values = reverse_sequences(values, lengths)
    assert reversed_values.tolist() == [[4, 3, 2, 1], [2, 1, 8, 9], [6, 7, 8, 9], [5, 7, 8, 9]]
    assert torch.equal(reverse_sequences(reversed_values, lengths), values)
