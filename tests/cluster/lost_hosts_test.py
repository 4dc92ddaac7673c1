"""Hosts that are lost in mid-training, each way once; lost_hosts.py does it many times."""
import pathlib
import shutil
import tempfile
import unittest

from cluster import LIMIT, missing
from lost_hosts import LostHosts


class LostHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := missing(redis=True):
            raise unittest.SkipTest(why)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="foretime-lost-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.lost = LostHosts(folder, seed=7, slack=LIMIT)  # how soon ranks end is measured by lost_hosts.py
        cls.addClassCleanup(cls.lost.down)
        cls.lost.up()

    # Promise lost-hosts/cut-off: it is cut off the network
    def test_a_host_that_is_cut_off_is_named_and_the_job_goes_on_without_it(self):
        self.lost.once("cut")

    # Promise lost-hosts/power: it loses its power
    def test_a_host_without_power_is_named_and_the_job_goes_on_without_it(self):
        self.lost.once("crash")

    # Promise lost-hosts/killed-ranks: its ranks are killed, and it answers: the job's own failure; the next attempt has
    # all ranks
    def test_a_host_whose_ranks_are_killed_is_named_and_the_job_goes_on(self):
        self.lost.once("kill")


if __name__ == "__main__":
    unittest.main()
